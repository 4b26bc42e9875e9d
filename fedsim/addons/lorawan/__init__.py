"""LoRa: frames that may collide, and a gateway that answers them in receive windows."""
