"""Workers as processes of this machine: no service, nothing to install, nothing left behind."""
