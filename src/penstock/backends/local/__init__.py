"""The local backend: workers are processes on this machine; it needs no service and leaves nothing behind."""
