"""Operations, one module per aggregate. Each is `async def op(tx, …)`, awaits nothing but its Tx, and is written once."""
