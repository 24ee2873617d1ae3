"""What is done to nodes about findings: conditions and events; taints are decided, not yet done.

`watch_page` (the page of `lockstep watch`) and `view` (a node object) -> `decide` with `conditions`
-> actions -> `applying` (JSON of the API) -> `client`, the only file that touches a cluster.
Standard library and the kubernetes client only: it has its own small image.
"""
