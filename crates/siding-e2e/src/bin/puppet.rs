//! puppet
fn main(){}
