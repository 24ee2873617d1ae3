"""What `lockstep watch` concludes from a look: who is slow, stopped, broken or gone."""
