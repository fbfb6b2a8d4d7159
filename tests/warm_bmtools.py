"""`bmtools` and `python` that start at once: forked from a server that has imported everything.

    python warm_bmtools.py serve SOCKET                       # until it is killed
    python -S -E warm_bmtools.py call SOCKET bmtools ...      # one command, in the caller's folder
    python -S -E warm_bmtools.py call SOCKET script.py ...    # or one script

The command gets the caller's arguments, folder, environment and open files, and is otherwise a
process of its own, so tests spend no time on imports. Linux only.
"""
# pathlib would take as long to import as all the rest of a call.
# ruff: noqa: PTH100, PTH109, PTH110, PTH120, PTH208

import json
import os
import socket
import sys

_LENGTH_BYTES = 8
_MOST_STREAMS = 64
# Descriptors from here on are free.
_FREE = 100


def call(path: str, arguments: list[str]) -> int:
    """Have the server run `bmtools` or a script, and return its exit code."""
    streams = [int(name) for name in os.listdir("/proc/self/fd")]
    streams = [number for number in streams if os.path.exists(f"/proc/self/fd/{number}")]
    content = json.dumps([arguments, os.getcwd(), dict(os.environ), streams]).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [len(content).to_bytes(_LENGTH_BYTES, "big")], streams)
        connection.sendall(content)
        answer = connection.recv(1)
    return answer[0] if answer else 1


def serve(path: str) -> None:
    """Import what commands need, then fork a process for each call."""
    import signal

    import transformers.models.bert.modeling_bert  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(16)
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _run(connection)
            connection.close()


def _run(connection: socket.socket) -> None:
    """Run a client's command, and exit."""
    import fcntl
    import runpy
    import traceback

    from bmtools.cli.main import main

    length, received, _, _ = socket.recv_fds(connection, _LENGTH_BYTES, _MOST_STREAMS)
    with connection.makefile("rb") as stream:
        arguments, folder, environment, numbers = json.loads(
            stream.read(int.from_bytes(length, "big")))
    connection = socket.socket(fileno=fcntl.fcntl(connection.detach(), fcntl.F_DUPFD, _FREE))
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, _FREE) for descriptor in received]
    for descriptor in received:
        os.close(descriptor)
    for number, descriptor in zip(numbers, moved, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, closefd=False) for number, mode in ((0, "r"), (1, "w"), (2, "w")))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    code = 1
    try:
        if arguments[0] == "bmtools":
            main(arguments[1:])
        sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
        runpy.run_path(arguments[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            sys.stderr.write(end.code + "\n")
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(bytes([code]))
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(call(sys.argv[2], sys.argv[3:]))
