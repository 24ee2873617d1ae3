"""Names of the types of arrays, and of a generator of random numbers."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Generator = np.random.Generator
