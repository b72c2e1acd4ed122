//! No code: the features in this package's manifest make one build of all packages.
