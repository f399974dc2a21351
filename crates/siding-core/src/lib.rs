//! siding-core.
