//! The experiments of `lab` for a web page: each request is a JSON object, and its answer is the object that the verb of the
//! command prints with `--json`, or the sentence of its error.
//!
//! The exported functions are plain WebAssembly: no tool generates code for them, and the loader of the page has 20 lines.

#![warn(unreachable_pub)]

mod exports;
mod request;

pub use exports::{anabranch_answer, anabranch_answer_place, anabranch_request};
pub use request::{Request, Verb};

/// Returns the answer to `request`, which is JSON: `{"error": ...}`, or the object of the verb.
pub fn answer(request: &[u8]) -> String {
    let answer = match serde_json::from_slice::<Request>(request) {
        Ok(request) => request.answer(),
        Err(error) => Err(format!("the request is not valid: {error}")),
    };
    answer.unwrap_or_else(|error| serde_json::json!({ "error": error }).to_string())
}
