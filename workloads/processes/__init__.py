"""What launchers share: starting, watching and ending the processes of ranks."""
