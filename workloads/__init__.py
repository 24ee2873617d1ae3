"""Reference runs, instrumented and with labelled faults."""
