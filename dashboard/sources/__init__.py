"""Where numbers come from: the only files of the dashboard that touch archives and Prometheus."""
