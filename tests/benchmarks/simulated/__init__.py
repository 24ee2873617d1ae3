"""What generators of simulated archives share: files of an archive, and a verdict's grade.

No physics and no draws: who writes a generator takes from here only what the contract of archives
prescribes anyway, and so generators stay independent of each other. Nothing here imports the
analyzer.

`arrays` names of types; `files` `samples` tables and files of an archive; `grading` a verdict
against what was injected.
"""
