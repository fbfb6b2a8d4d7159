"""The settings that papers pretrained with, a phases file each."""
