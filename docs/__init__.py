"""The extensions of Markdown that the pages need. A package, for others install a folder named docs, too."""
