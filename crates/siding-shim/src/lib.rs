//! siding-shim.
