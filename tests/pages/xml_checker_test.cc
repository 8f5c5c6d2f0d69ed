#include "tests/pages/xml_checker.h"

#include <gtest/gtest.h>

namespace mxcheck::test {
namespace {

TEST(XmlChecker, tells_right_from_wrong) {
  const std::string head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  EXPECT_EQ(XmlChecker(head + "<a x=\"1\"><b/>text &amp; more</a>\n").check(), "");
  for (const char* bad : {"<a>", "<a></b>", "<a x=1/>", "<a x=\"1\" x=\"2\"/>", "<a>&</a>", "<a x=\"<\"/>", "<a/><b/>",
                          "<a>\xff</a>", "<a>\x01</a>", "</a>", "text"}) {
    EXPECT_NE(XmlChecker(head + bad).check(), "") << bad;
  }
}

}  // namespace
}  // namespace mxcheck::test
