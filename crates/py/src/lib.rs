//! The extension module.
#![warn(unreachable_pub)]
use pyo3::prelude::*;

#[pyclass]
struct Foo { #[pyo3(get)] a: u64 }

#[pymethods]
impl Foo { #[new] fn new() -> Foo { Foo { a: 1 } } fn b(&self) -> u64 { self.a } }

#[pymodule]
mod _anabranch {
    #[pymodule_export]
    use super::Foo;
}
