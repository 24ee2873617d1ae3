"""What Prometheus and the collectors answer: one look at everything that lives."""
