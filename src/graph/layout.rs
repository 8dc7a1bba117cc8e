//! Where the nodes of a graph are drawn: layers from left to right, a dependency always before its dependents.
//!
//! The layers are longest paths, cycles cut where they have to be; long edges get a bend in every layer they cross;
//! barycentre sweeps order each layer; then every node moves towards its neighbours as far as the others let it.
//! Knows no stacks: only widths, and pairs of numbers.

use std::collections::VecDeque;

/// A picture's measures, in pixels.
const ROW: f64 = 44.0;
const BEND: f64 = 14.0;
const NODE_HEIGHT: f64 = 30.0;
const GAP: f64 = 72.0;
const MARGIN: f64 = 12.0;
/// More sweeps do not make it visibly better.
const SWEEPS: usize = 8;
/// Bends of all edges together; a graph that needs more is drawn with straight edges.
const BENDS_MAX: usize = 4_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    pub width: f64,
    pub height: f64,
    /// By the number of the node.
    pub places: Vec<Place>,
    /// The line of each edge as the `d` of an SVG path.
    pub lines: Vec<String>,
}

/// Places nodes of these widths. Edges run from what comes first to what comes after.
pub fn draw(widths: &[f64], edges: &[(usize, usize)]) -> Drawing {
    let layer = layers(widths.len(), edges);
    let mut net = Net::of(widths, edges, layer);
    for sweep in 0..SWEEPS {
        net.sweep(sweep % 2 == 0);
    }
    net.settle();
    net.drawing(widths, edges)
}

/// The layer of each node: one more than the highest of what comes before it. In a cycle the first node goes ahead.
pub fn layers(nodes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut after = vec![Vec::new(); nodes];
    let mut waits = vec![0_usize; nodes];
    for (from, to) in edges.iter().filter(|(from, to)| from != to) {
        after[*from].push(*to);
        waits[*to] += 1;
    }
    let mut layer = vec![0; nodes];
    let mut done = vec![false; nodes];
    let mut ready: VecDeque<usize> = (0..nodes).filter(|node| waits[*node] == 0).collect();
    let mut rest = 0..nodes;
    loop {
        let Some(node) = ready.pop_front().or_else(|| rest.find(|node| !done[*node])) else { return layer };
        if std::mem::replace(&mut done[node], true) {
            continue;
        }
        for next in &after[node] {
            if !done[*next] {
                layer[*next] = layer[*next].max(layer[node] + 1);
                waits[*next] -= 1;
                if waits[*next] == 0 {
                    ready.push_back(*next);
                }
            }
        }
    }
}

/// Nodes and bends, layer by layer. Numbers below the number of nodes are nodes, the others bends.
struct Net {
    layer: Vec<usize>,
    /// Each layer from top to bottom.
    order: Vec<Vec<usize>>,
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
    /// The points each edge runs through, ends included.
    runs: Vec<Vec<usize>>,
    y: Vec<f64>,
    nodes: usize,
    columns: Vec<f64>,
}

impl Net {
    fn of(widths: &[f64], edges: &[(usize, usize)], mut layer: Vec<usize>) -> Self {
        let nodes = widths.len();
        let depth = layer.iter().max().map_or(0, |last| last + 1);
        let spans = edges.iter().map(|(from, to)| layer[*to].saturating_sub(layer[*from] + 1));
        let bends = spans.sum::<usize>() <= BENDS_MAX;
        let mut runs = Vec::with_capacity(edges.len());
        for (from, to) in edges {
            let mut run = vec![*from];
            // An edge that closes a cycle runs backwards and straight.
            if bends {
                for between in layer[*from] + 1..layer[*to] {
                    layer.push(between);
                    run.push(layer.len() - 1);
                }
            }
            run.push(*to);
            runs.push(run);
        }
        let mut net = Self {
            order: vec![Vec::new(); depth],
            before: vec![Vec::new(); layer.len()],
            after: vec![Vec::new(); layer.len()],
            y: vec![0.0; layer.len()],
            columns: vec![0.0; depth],
            runs,
            layer,
            nodes,
        };
        for point in 0..net.layer.len() {
            net.order[net.layer[point]].push(point);
        }
        for (node, width) in widths.iter().enumerate() {
            let column = &mut net.columns[net.layer[node]];
            *column = column.max(*width);
        }
        for run in &net.runs {
            for pair in run.windows(2) {
                net.after[pair[0]].push(pair[1]);
                net.before[pair[1]].push(pair[0]);
            }
        }
        net
    }

    /// Orders each layer by the middle of its neighbours in the layer before it, or after it.
    fn sweep(&mut self, forwards: bool) {
        let depth = self.order.len();
        let mut rank = vec![0.0; self.layer.len()];
        let passes: Vec<usize> = if forwards { (0..depth).collect() } else { (0..depth).rev().collect() };
        for layer in passes {
            let mut points = std::mem::take(&mut self.order[layer]);
            let neighbours = if forwards { &self.before } else { &self.after };
            let mut keyed: Vec<(f64, usize, usize)> = points
                .drain(..)
                .enumerate()
                .map(|(at, point)| (mean(&neighbours[point], &rank).unwrap_or(at as f64), at, point))
                .collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            points.extend(keyed.into_iter().map(|(_, _, point)| point));
            for (at, point) in points.iter().enumerate() {
                rank[*point] = at as f64;
            }
            self.order[layer] = points;
        }
    }

    /// Heights: everything as near to its neighbours as the order of its layer allows.
    fn settle(&mut self) {
        for points in &self.order {
            let mut y = 0.0;
            for (at, point) in points.iter().enumerate() {
                y += if at == 0 { 0.0 } else { self.distance(points[at - 1], *point) };
                self.y[*point] = y;
            }
        }
        for sweep in 0..SWEEPS {
            for at in 0..self.order.len() {
                let layer = if sweep % 2 == 0 { at } else { self.order.len() - 1 - at };
                let points = &self.order[layer];
                let wanted: Vec<f64> = points.iter().map(|point| self.wanted(*point)).collect();
                let gaps: Vec<f64> = points.windows(2).map(|pair| self.distance(pair[0], pair[1])).collect();
                for (point, y) in points.clone().into_iter().zip(spread(&wanted, &gaps)) {
                    self.y[point] = y;
                }
            }
        }
    }

    fn wanted(&self, point: usize) -> f64 {
        let around: Vec<usize> = self.before[point].iter().chain(&self.after[point]).copied().collect();
        mean(&around, &self.y).unwrap_or(self.y[point])
    }

    fn distance(&self, above: usize, below: usize) -> f64 {
        let half = |point: usize| if point < self.nodes { ROW / 2.0 } else { BEND / 2.0 };
        half(above) + half(below)
    }

    fn drawing(&self, widths: &[f64], edges: &[(usize, usize)]) -> Drawing {
        let top = self.y.iter().copied().fold(f64::INFINITY, f64::min);
        let top = if top.is_finite() { top } else { 0.0 };
        let lift = MARGIN + NODE_HEIGHT / 2.0 - top;
        let mut left = Vec::with_capacity(self.columns.len());
        let mut x = MARGIN;
        for width in &self.columns {
            left.push(x);
            x += width + GAP;
        }
        let places: Vec<Place> = widths
            .iter()
            .enumerate()
            .map(|(node, width)| Place {
                x: left[self.layer[node]],
                y: (self.y[node] + lift - NODE_HEIGHT / 2.0).round(),
                width: *width,
                height: NODE_HEIGHT,
            })
            .collect();
        let height = self.y.iter().map(|y| (y + lift + NODE_HEIGHT / 2.0).ceil()).fold(0.0, f64::max);
        let point = |point: usize| {
            let at = left[self.layer[point]];
            (at, at + self.columns[self.layer[point]], self.y[point] + lift)
        };
        let lines = edges.iter().zip(&self.runs).map(|((from, to), run)| {
            let mut line = Line::from(places[*from].x + places[*from].width, places[*from].y + NODE_HEIGHT / 2.0);
            for bend in &run[1..run.len() - 1] {
                let (start, end, y) = point(*bend);
                line.curve(start, y);
                line.straight(end, y);
            }
            line.curve(places[*to].x, places[*to].y + NODE_HEIGHT / 2.0);
            line.d
        });
        Drawing { width: (x - GAP + MARGIN).max(MARGIN), height: height + MARGIN, lines: lines.collect(), places }
    }
}

struct Line {
    d: String,
    x: f64,
    y: f64,
}

impl Line {
    fn from(x: f64, y: f64) -> Self {
        Self { d: format!("M{x:.0} {y:.0}"), x, y }
    }

    fn curve(&mut self, x: f64, y: f64) {
        let reach = ((x - self.x) / 2.0).abs().max(GAP / 2.0);
        self.d.push_str(&format!("C{:.0} {:.0} {:.0} {y:.0} {x:.0} {y:.0}", self.x + reach, self.y, x - reach));
        (self.x, self.y) = (x, y);
    }

    fn straight(&mut self, x: f64, y: f64) {
        self.d.push_str(&format!("L{x:.0} {y:.0}"));
        (self.x, self.y) = (x, y);
    }
}

fn mean(points: &[usize], of: &[f64]) -> Option<f64> {
    (!points.is_empty()).then(|| points.iter().map(|point| of[*point]).sum::<f64>() / points.len() as f64)
}

/// The heights nearest to the wanted ones (in squares) that keep order and gaps: blocks that collide move as one.
fn spread(wanted: &[f64], gaps: &[f64]) -> Vec<f64> {
    let mut offset = 0.0;
    let mut offsets = Vec::with_capacity(wanted.len());
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (at, y) in wanted.iter().enumerate() {
        offset += if at == 0 { 0.0 } else { gaps[at - 1] };
        offsets.push(offset);
        let mut block = (y - offset, 1);
        while let Some((sum, size)) = blocks.last().copied() {
            if sum / size as f64 <= block.0 / block.1 as f64 {
                break;
            }
            blocks.pop();
            block = (block.0 + sum, block.1 + size);
        }
        blocks.push(block);
    }
    let bases = blocks.iter().flat_map(|(sum, size)| std::iter::repeat_n(sum / *size as f64, *size));
    bases.zip(offsets).map(|(base, offset)| base + offset).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_dependency_stands_left_of_its_dependents() {
        let drawing = draw(&[50.0; 4], &[(0, 1), (1, 2), (0, 2), (3, 2)]);
        let x: Vec<f64> = drawing.places.iter().map(|place| place.x).collect();
        assert!(x[0] < x[1] && x[1] < x[2] && x[3] == x[0], "{x:?}");
        assert_eq!(drawing.lines.len(), 4);
    }

    #[test]
    fn colliding_heights_move_as_one() {
        assert_eq!(spread(&[0.0, 0.0, 0.0], &[10.0, 10.0]), [-10.0, 0.0, 10.0]);
        assert_eq!(spread(&[0.0, 100.0], &[10.0]), [0.0, 100.0]);
    }

    #[test]
    fn nothing_is_a_picture_too() {
        assert_eq!(draw(&[], &[]).places, []);
    }

    proptest! {
        #[test]
        fn any_graph_is_drawn_without_overlap(
            nodes in 1_usize..30,
            edges in prop::collection::vec((0_usize..30, 0_usize..30), 0..60),
        ) {
            let edges: Vec<(usize, usize)> = edges.into_iter().map(|(a, b)| (a % nodes, b % nodes)).collect();
            let drawing = draw(&vec![40.0; nodes], &edges);
            for (a, one) in drawing.places.iter().enumerate() {
                prop_assert!(one.x >= 0.0 && one.y >= 0.0 && one.y + one.height <= drawing.height);
                for other in &drawing.places[a + 1..] {
                    prop_assert!(one.x != other.x || (one.y - other.y).abs() >= one.height, "{one:?} {other:?}");
                }
            }
            prop_assert_eq!(drawing.clone(), draw(&vec![40.0; nodes], &edges));
        }

        #[test]
        fn without_a_cycle_every_edge_goes_right(edges in prop::collection::vec((0_usize..20, 0_usize..20), 0..60)) {
            let edges: Vec<(usize, usize)> =
                edges.into_iter().filter(|(a, b)| a != b).map(|(a, b)| (a.min(b), a.max(b))).collect();
            let layer = layers(20, &edges);
            for (from, to) in edges {
                prop_assert!(layer[from] < layer[to]);
            }
        }
    }
}
