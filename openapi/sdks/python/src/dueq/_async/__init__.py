"""The client and the generated APIs: those for asyncio are written, and build.sh makes the others of them."""
