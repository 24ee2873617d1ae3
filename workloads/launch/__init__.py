"""How the ranks of a run start, meet, are watched, and end; one file or folder a launcher."""
