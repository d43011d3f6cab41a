"""`trserve chat`: a streaming client and how a conversation looks."""
