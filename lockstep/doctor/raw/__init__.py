"""Raw outputs of a machine in one file that may be sent, and what our parsers make of them.

The table of parts (`parts.py`) says what is gathered, the table of parsers (`parsers.py`) who reads
it. Between the two, `pseudonyms.py` replaces what names people, machines and devices.
"""
