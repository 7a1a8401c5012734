"""What tests that start a Spark server of their own share."""

# For a Spark server of minutes: Java's second compiler would take more time than what it compiles saves.
SHORT_LIVED = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
