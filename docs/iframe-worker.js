// Browsers start no workers for pages that are opened from a disk: the search runs in a frame there.
// Each side gets a copy of a message, as from a worker: the search changes what it receives.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      this.scope = new Promise((resolve) => {
        frame.onload = () => {
          const scope = frame.contentWindow
          scope.importScripts = () => {}
          scope.postMessage = (data) => {
            const event = new MessageEvent("message", { data: structuredClone(data) })
            this.dispatchEvent(event)
            this.onmessage?.(event)
          }
          const script = scope.document.createElement("script")
          script.src = new URL(url, location.href)
          script.onload = () => resolve(scope)
          scope.document.head.append(script)
        }
      })
      document.documentElement.append(frame)
    }

    postMessage(data) {
      this.scope.then((scope) => scope.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) })))
    }

    terminate() {}
  }
