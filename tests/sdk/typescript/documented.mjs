// Every name that a program can see of the package has a comment, which an editor shows beside it; run by `node --test`.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const { default: ts } = await import(process.env.TYPESCRIPT);

const files = new Map(["dueq", "dueq/testing"].map((entry) => [entry, typesOf(entry)]));
const program = ts.createProgram([...files.values()], { module: ts.ModuleKind.Node16, types: ["node"] });
const checker = program.getTypeChecker();

function typesOf(entry) {
  return fileURLToPath(import.meta.resolve(entry)).replace(/js$/, "d.ts");
}

/** Names without a comment, of what an entry of the package exports. */
function undocumented(file) {
  const found = [];
  let names = 0;
  const look = (symbol, name) => {
    names += 1;
    const of = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
    const flags = of.declarations.reduce((all, each) => all | ts.getCombinedModifierFlags(each), 0);
    if (flags & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected)) return;
    if (of.flags & ts.SymbolFlags.Module) {
      for (const each of checker.getExportsOfModule(of)) look(each, `${name}.${each.name}`);
    } else if (of.getDocumentationComment(checker).length === 0) {
      found.push(name);
    }
    if (!(of.flags & (ts.SymbolFlags.Class | ts.SymbolFlags.Interface))) return;
    for (const each of of.members.values()) {
      if (/^(__constructor|__index|name|#.*)$/.test(each.name) || each.name.startsWith("__#")) continue;
      if (!(each.flags & ts.SymbolFlags.TypeParameter)) look(each, `${name}.${each.name}`);
    }
  };
  const source = checker.getSymbolAtLocation(program.getSourceFile(file));
  for (const symbol of checker.getExportsOfModule(source)) look(symbol, symbol.name);
  return { found, names };
}

for (const [entry, file] of files) {
  test(`every public name of ${entry} is documented`, () => {
    const { found, names } = undocumented(file);
    assert.deepEqual(found, []);
    assert.ok(names > (entry === "dueq" ? 300 : 3), `${names} names looked at`);
  });
}
