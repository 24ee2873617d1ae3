"""Runs on a Kubernetes cluster: what is created there, and what becomes of it.

`settings` and a RunSpec -> `job_manifests` or `workflow` (from `pod`) -> `submission`; `facts` ->
`preflight` (why it can never be scheduled) and `doubts` (what is not known); `objects` creates it
and deletes only its own; `cluster_run` waits on `conditions`. All of it is tested without a
cluster: `api` alone speaks to one.
"""
