"""Papers that muhat grows out of, one folder each: their figures and tables, published beside ours."""
