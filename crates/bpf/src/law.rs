//! The congestion controls that there are as BPF programs.

use core::fmt;

/// A coupled congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// The linked increases algorithm (RFC 6356).
    Lia,
    /// The opportunistic linked increases algorithm (CoNEXT 2012).
    Olia,
    /// The balanced linked adaptation (draft-walid-mptcp-congestion-control).
    Balia,
    /// Weighted Vegas (ICNP 2012).
    Wvegas,
}

impl Law {
    /// All of them.
    pub const ALL: [Law; 4] = [Law::Lia, Law::Olia, Law::Balia, Law::Wvegas];

    /// Returns the name in scenarios and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Law::Lia => "lia",
            Law::Olia => "olia",
            Law::Balia => "balia",
            Law::Wvegas => "wvegas",
        }
    }

    /// Returns the name that the kernel has for it, in sysctls, routes and socket options: at most 15 characters.
    pub const fn kernel_name(self) -> &'static str {
        match self {
            Law::Lia => "mp_lia",
            Law::Olia => "mp_olia",
            Law::Balia => "mp_balia",
            Law::Wvegas => "mp_wvegas",
        }
    }

    /// Returns the law with this name, its own or the kernel's.
    pub fn from_name(name: &str) -> Option<Law> {
        Law::ALL.into_iter().find(|law| name == law.name() || name == law.kernel_name())
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_found_and_fits_the_kernel() {
        for law in Law::ALL {
            assert_eq!(Law::from_name(law.name()), Some(law));
            assert_eq!(Law::from_name(law.kernel_name()), Some(law));
            // TCP_CA_NAME_MAX is 16 with the zero at the end.
            assert!(law.kernel_name().len() < 16);
        }
        assert_eq!(Law::from_name("reno"), None);
    }
}
