//! The browser example of the cookbook, on the real template. Its first run builds the template,
//! and an emulated browser takes minutes.

use pandastack_e2e::cookbook::Cookbook;
use pandastack_testbed::{DataFolder, TestServer};

use crate::cookbook::problem;

#[test]
fn the_browser_example_drives_a_real_browser() {
    let cookbook = Cookbook::installed();
    let data = DataFolder::with_templates().unwrap();
    data.add_template("browser").unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    assert_eq!(problem(&cookbook, "browser", &server), None);
}
