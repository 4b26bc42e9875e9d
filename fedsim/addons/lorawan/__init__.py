"""LoRa: frames that collide in the air, and the gateway that answers them in windows."""
