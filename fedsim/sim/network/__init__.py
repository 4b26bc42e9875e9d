"""The network: lanes in which messages travel, and links that they share."""
