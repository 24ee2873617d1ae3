"""Push-down: peer statistics as recording rules of a Prometheus, and their readers.

`rules` makes the rules, `survey` reads what they single out, `narrow` fetches the windows of those
few, and `diagnosis` says of them what a full read would.
"""
