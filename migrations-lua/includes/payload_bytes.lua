-- Bytes of payload in a stored body: all but its tag (one byte), or its tag, header length and header.
local function payload_bytes(body)
  if not body then return 0 end
  if string.byte(body, 1) == 0 then return #body - 1 end
  return #body - 3 - string.byte(body, 2) * 256 - string.byte(body, 3)
end
