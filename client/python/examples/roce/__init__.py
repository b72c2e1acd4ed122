"""The parts of the device in soft_roce.py: packets, queue pairs, responder, requester."""
