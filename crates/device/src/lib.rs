//! verbatim-device
