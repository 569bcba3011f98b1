//! Origins of remote tools: how a URL reads, what a redirect may do, what address may be reached,
//! and whether a version's origin is pinned or moved.
//!
//! Pure: names are resolved and connections made elsewhere (`tools`); the control plane asks
//! [`decide_pin`] in the transaction that assigns a version. Rules: 20-listings, 7.

mod address;
mod pin;
mod redirect;
mod shown;
mod tool_url;

pub use address::{
    AddressClass, AddressFault, ClassFault, ClassPolicy, class_of_address, class_of_host, judge_class,
};
pub use pin::{Endpoint, OnEdge, Pin, PinQuestion, PinState, decide_pin};
pub use redirect::{MAX_REDIRECTS, Method, Redirect, RedirectFault, redirect};
pub use shown::ShownUrl;
pub use tool_url::{Origin, OriginFault, ToolUrl, UrlFault, parse_tool_url};

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
