//! siding-model.
