"""How a model is spread over ranks: tensor, pipeline and data parallel, one file each."""
