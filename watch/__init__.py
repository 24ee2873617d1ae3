"""What happens now: look at Prometheus, judge, keep findings, deliver them."""
