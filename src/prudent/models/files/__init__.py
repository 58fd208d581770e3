"""Files of models that other programs read and write: UMB, PRISM's explicit files, and PETSc's binary matrices."""
