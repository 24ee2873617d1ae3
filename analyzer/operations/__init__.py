"""What single operations show: simulation, structure, outliers of traces."""
