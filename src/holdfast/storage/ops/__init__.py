"""Operations, one module per aggregate. Each is `async def op(tx, …)` and awaits nothing but its Tx."""
