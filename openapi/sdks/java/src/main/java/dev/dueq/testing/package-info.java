/**
 * A dueq in memory, for the tests of programs that use it: no server, no Redis, and a clock that the test moves. It needs no test
 * framework. See {@link dev.dueq.testing.TestServer}.
 */
package dev.dueq.testing;
