"""What the analyzer does about a finding: tells every Alertmanager, and hears from it."""
