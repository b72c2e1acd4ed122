//! No code: the features in this package's manifest let all packages share one build.
