"""What slowness costs: step time, GPU-hours, money, and how often it came back."""
