"""The folder that goes on an external program's PYTHONPATH; sitecustomize.py is all that counts."""
