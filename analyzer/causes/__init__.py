"""Why a place is slow: symptoms, the causes that expect them, and how they are weighed."""
