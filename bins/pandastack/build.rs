//! Lets the linker keep one copy of functions that came out the same: generic code makes thousands
//! of them.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    }
}
