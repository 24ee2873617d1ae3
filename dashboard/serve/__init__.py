"""The dashboard as a server: the app, its headers, and its deadlines."""
