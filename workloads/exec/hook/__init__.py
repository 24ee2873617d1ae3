"""The folder that goes on a foreign program's PYTHONPATH; sitecustomize.py is all that counts."""
