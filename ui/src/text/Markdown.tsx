/** Markdown as elements, never as HTML. A link says where it leads and does not lead there; an image is its address. */

import { Fragment, memo } from "react";
import { beginning } from "./hostile";
import { type Block, blocks, type Inline, MOST } from "./blocks";
import { Long, Plain } from "./Text";

export const Markdown = memo(function Markdown({ text, label }: { text: string; label: string }) {
  if (text.length > MOST) return <Long text={text} label={label} mono={false} />;
  return (
    <div className="flex flex-col gap-2.5 leading-relaxed">
      {blocks(beginning(text, MOST)).map((block, at) => (
        <BlockOf key={at} block={block} label={label} />
      ))}
    </div>
  );
});

function BlockOf({ block, label }: { block: Block; label: string }) {
  switch (block.kind) {
    case "heading":
      return (
        <p role="heading" aria-level={Math.min(block.level + 3, 6)} className={block.level < 3 ? "text-lg font-semibold" : "font-semibold"}>
          <Inlines of={block.of} />
        </p>
      );
    case "paragraph":
      return (
        <p className="whitespace-pre-wrap">
          <Inlines of={block.of} />
        </p>
      );
    case "quote":
      return (
        <blockquote className="border-l-2 border-edge pl-3 whitespace-pre-wrap text-quiet">
          <Inlines of={block.of} />
        </blockquote>
      );
    case "code":
      return <Long text={block.text} label={`${block.language || "code"} in ${label}`} />;
    case "rule":
      return <hr className="border-line" />;
    case "list": {
      const List = block.ordered ? "ol" : "ul";
      return (
        <List className={`flex flex-col gap-1 pl-5 ${block.ordered ? "list-decimal" : "list-disc"}`}>
          {block.items.map((item, at) => (
            <li key={at} className="whitespace-pre-wrap">
              <Inlines of={item} />
            </li>
          ))}
        </List>
      );
    }
    case "table":
      return <Table block={block} label={label} />;
  }
}

function Table({ block, label }: { block: Extract<Block, { kind: "table" }>; label: string }) {
  return (
    <div className="overflow-x-auto" tabIndex={0} role="region" aria-label={`Table in ${label}`}>
      <table className="border-collapse text-sm">
        <thead>
          <tr>
            {block.head.map((cell, at) => (
              <th key={at} scope="col" className="border border-line bg-sunken px-2.5 py-1 text-left font-semibold">
                <Inlines of={cell} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {block.rows.map((row, at) => (
            <tr key={at}>
              {row.map((cell, column) => (
                <td key={column} className="border border-line px-2.5 py-1">
                  <Inlines of={cell} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Inlines({ of }: { of: readonly Inline[] }) {
  return (
    <>
      {of.map((one, at) => (
        <Fragment key={at}>
          <InlineOf one={one} />
        </Fragment>
      ))}
    </>
  );
}

function InlineOf({ one }: { one: Inline }) {
  switch (one.kind) {
    case "text":
      return <Plain text={one.text} />;
    case "code":
      return (
        <code className="rounded-sm bg-sunken px-1 py-px font-mono text-[0.92em]">
          <Plain text={one.text} />
        </code>
      );
    case "strong":
      return (
        <strong className="font-semibold">
          <Inlines of={one.of} />
        </strong>
      );
    case "em":
      return (
        <em>
          <Inlines of={one.of} />
        </em>
      );
    case "link":
      return (
        <span>
          <Plain text={one.text || (one.image ? "image" : "link")} />{" "}
          <span className="font-mono text-[0.92em] text-quiet">
            ({one.image ? "image, not loaded: " : ""}
            <Plain text={one.address} />)
          </span>
        </span>
      );
  }
}
